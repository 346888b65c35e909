/*
 * PyTorch's settings: what weir keeps of them besides its own options.
 */
#ifndef PLUGINS_TORCH_CONF_H
#define PLUGINS_TORCH_CONF_H

#include <stdbool.h>

/* Has the user asked PyTorch for expandable segments? Without a word on them
 * PyTorch's default holds for private pools, and weir's for all else. */
bool conf_asks_expandable(void);

#endif
