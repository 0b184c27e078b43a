for(const head of document.querySelectorAll('th'))head.onclick=()=>{const body=head.closest('table').tBodies[0],
i=head.cellIndex,sign=head.dataset.sign=-(head.dataset.sign||1);[...body.rows].sort((a,b)=>{
const x=a.cells[i].innerText,y=b.cells[i].innerText;
return sign*(isNaN(x)||isNaN(y)?y.localeCompare(x):y-x)}).forEach(row=>body.append(row))};
onbeforeprint=()=>document.querySelectorAll('details').forEach(part=>part.open=true);
