/* Functions that need as much stack as the test asks for, and functions that fail. */

#include <stddef.h>

/* Writes to kib KiB of stack, 1 KiB in each frame, and returns how many KiB have kept what was written. */
__attribute__((noinline)) size_t use_stack(size_t kib)
{
	volatile unsigned char frame[1024];
	size_t i, deeper;

	if (kib == 0)
		return 0;
	for (i = 0; i < sizeof(frame); i++)
		frame[i] = (unsigned char)(kib + i);
	deeper = use_stack(kib - 1);
	for (i = 0; i < sizeof(frame); i++)
		if (frame[i] != (unsigned char)(kib + i))
			return 0;
	return deeper + 1;
}

/* Returns the address of a variable on the stack. */
size_t stack_address(void)
{
	volatile char here;

	return (size_t)&here;
}

/* Reads from address 0. */
size_t read_null(void)
{
	return *(volatile size_t *)0;
}
