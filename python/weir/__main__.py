"""python -m weir: the command `weir`."""

from _weir_command import main

if __name__ == "__main__":
    main()
