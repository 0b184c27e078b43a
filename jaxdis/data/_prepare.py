"""Data sets' files: downloaded by tensorflow-datasets, or checked where the user has put them."""

from pathlib import Path

from jaxdis._core.lookup import look_up
from jaxdis.data._data_source import DataSource
from jaxdis.data._datasets import DATASETS

# Data sets that tensorflow-datasets downloads, by their names there.
_DOWNLOADED = {"dsprites": "dsprites", "shapes3d": "shapes3d", "smallnorb": "smallnorb", "clevr6": "clevr"}


def prepared(name: str, folder: Path, source: Path | None = None) -> Path:
    """The path to a data set's complete files.

    Args:
      name: in ``DATASETS``.
      folder: where a download is kept; one that is there already is left as it is.
      source: official files, which are checked instead.

    Raises:
      ValueError: for a set that reads no file, or one that cannot be downloaded, saying which file to download and how
        to pass it; or for files that are not the official ones.
    """
    row = look_up(name, DATASETS, "data set")
    if not row.reads:
        raise ValueError(f"name: must be a data set that reads files, got {name}, which is drawn")
    if source is not None:
        row.open(name, DataSource.of(source))
        return source
    by_hand = f"download it ({row.reads}; {row.origin}), and give its path: jaxdis data prepare {name} --source PATH"
    if name not in _DOWNLOADED:
        raise ValueError(f"name: must be among {', '.join(_DOWNLOADED)} for a download, got {name}; {by_hand}")
    from jaxdis.data.files import _tfds as tfds

    try:
        return tfds.prepare(_DOWNLOADED[name], folder)
    except ImportError:
        raise
    except Exception as error:  # whatever a download raises
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{name}: cannot be downloaded ({type(error).__name__}: {reason}); {by_hand}") from None
