/*
 * The part of an interpreter that stacks/python_layout.c reads; the test puts
 * the frames and codes into memory.
 */
__attribute__((visibility("default"))) char PyCode_Type[8];
__attribute__((visibility("default"))) char PyUnicode_Type[8];

__attribute__((visibility("default"))) const char *fake_python_version =
    "3.11.2 (main)";
__attribute__((visibility("default"))) void *fake_python_state;

const char *Py_GetVersion(void);
int Py_IsInitialized(void);
void *PyGILState_GetThisThreadState(void);
int PyCode_Addr2Line(void *code, int at);

__attribute__((visibility("default"))) const char *
Py_GetVersion(void)
{
	return fake_python_version;
}

__attribute__((visibility("default"))) int
Py_IsInitialized(void)
{
	return 1;
}

__attribute__((visibility("default"))) void *
PyGILState_GetThisThreadState(void)
{
	return fake_python_state;
}

__attribute__((visibility("default"))) int
PyCode_Addr2Line(void *code, int at)
{
	(void)code;
	return 1000 + at;
}
