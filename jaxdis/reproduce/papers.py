"""The papers that can be reproduced."""

from jaxdis.reproduce import (
    dangnhu2022,
    dangnhu2022_page,
    eastwood2018,
    eastwood2018_page,
    julka2024,
    julka2024_page,
    locatello2020,
    locatello2020_page,
    mahon2024,
    mahon2024_page,
)
from jaxdis.reproduce.paper import Reproducible

REPRODUCTIONS: dict[str, Reproducible] = {
    key: Reproducible(key, runs.studies, runs.pieces, page.content)
    for key, runs, page in (
        ("mahon2024", mahon2024, mahon2024_page),
        ("locatello2020", locatello2020, locatello2020_page),
        ("eastwood2018", eastwood2018, eastwood2018_page),
        ("julka2024", julka2024, julka2024_page),
        ("dangnhu2022", dangnhu2022, dangnhu2022_page),
    )
}
