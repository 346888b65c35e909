#include "../../interface.h"
