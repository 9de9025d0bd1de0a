"""``python -m iclab``."""

import sys

from iclab.cli.main import main

sys.exit(main())
