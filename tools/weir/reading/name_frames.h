/*
 * The helper that names frames (name_frames.c).
 */
#ifndef TOOLS_WEIR_READING_NAME_FRAMES_H
#define TOOLS_WEIR_READING_NAME_FRAMES_H

/* Answer the questions of stdin until its end. Ends the process. */
_Noreturn void name_frames(void);

#endif
