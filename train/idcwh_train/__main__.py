"""The entry point of `python -m idcwh_train` and `torchrun -m idcwh_train`, the same as the script idcwh-train."""

import sys

from idcwh_search.cli.entry import train

sys.exit(train())
