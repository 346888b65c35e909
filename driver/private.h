/*
 * Declarations that only the files of driver/ share.
 */
#ifndef DRIVER_PRIVATE_H
#define DRIVER_PRIVATE_H

#include "driver/driver.h"

/* Use the texts of `driver` from now on. The loader calls this once all entries
 * are found, so that the text of a failing cuInit() is the driver's own. */
void driver_text_from(const struct driver *driver);

#endif
