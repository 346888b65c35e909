/*
 * PyTorch's settings: those that weir stores besides its own options.
 */
#ifndef PLUGINS_TORCH_CONF_H
#define PLUGINS_TORCH_CONF_H

#include <stdbool.h>

/* Has the user asked PyTorch for expandable segments? If the settings do not
 * mention them, PyTorch's default applies to private pools, and weir's to all
 * other memory. */
bool conf_asks_expandable(void);

#endif
