"""Options that several commands have, each described once."""

from pathlib import Path
from typing import Annotated

import tyro

Sources = Annotated[
    tyro.conf.UseAppendAction[tuple[str, ...]],
    tyro.conf.arg(help="NAME=PATH: the official file of a data set that is read from one. May be repeated."),
]
DataOptions = Annotated[
    tyro.conf.UseAppendAction[tuple[str, ...]],
    tyro.conf.arg(
        help="NAME.OPTION=VALUE: an option of such a data set, for example mpi3d.variant=real. May be repeated."
    ),
]
Executor = Annotated[
    str | None,
    tyro.conf.arg(
        help="processes:COUNT for workers on this machine, or dask://HOST:PORT for those of a Dask scheduler. The "
        "latter must see the folder under the same path. By default everything runs in this process."
    ),
]
Cache = Annotated[Path | None, tyro.conf.arg(help="Folder for compiled programs; by default ~/.cache/jaxdis/programs.")]
