/*
 * Messages for a person, on stderr, one in each line, with the prefix "weir: ".
 * WEIR_LOG=error|warn|info|debug sets which are shown; warn is the default.
 * weir_log_set() sends them to a function of the program instead.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

/* The numbers of enum weir_log_level. */
enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* One write(2) for each message; allocates no memory. Preserves errno. */
void log_write(enum log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
