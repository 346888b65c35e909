#include "../../../interface.h"
