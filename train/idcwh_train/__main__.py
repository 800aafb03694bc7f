"""Runs idcwh-train for `python -m idcwh_train` and `torchrun -m idcwh_train`, as the installed script does."""

import sys

from idcwh_search.cli.entry import train

sys.exit(train())
