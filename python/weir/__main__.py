"""python -m weir: the command `weir`."""

from _weir_command import main

main()
