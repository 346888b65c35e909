/* The second of two libraries with the same symbols. */
#define SHOWN __attribute__((visibility("default")))

SHOWN const char *door_here(void);
SHOWN const char *cuDoorHere(void);

const char *
door_here(void)
{
	return "b";
}

const char *
cuDoorHere(void)
{
	return "b";
}
