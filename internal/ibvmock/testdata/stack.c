/* Measures the stacks on which functions of the data path run, and how much of them these functions use. */
#include "mock.h"

#include <stdio.h>

enum {
	MAX_STACKS = 64,
	PAINTED_BYTES = 512 << 10, /* so much of a stack is painted, unless it is smaller */
	OWN_BYTES = 1 << 10,       /* more than paint and its caller use */
};

#define PAINT 0x5ca1ab1e0ddba11ull

/* A stack that is measured. From bottom up to painted it has PAINT, except where a call has written since. */
struct stack {
	uintptr_t low, high;       /* the mapping */
	uintptr_t bottom, painted;
	uintptr_t entry;           /* stack pointer of the last call */
};

static struct stack stacks[MAX_STACKS]; /* those up to the first with high 0 are used */
static struct stack_figures figures;
static uint32_t lock; /* guards all of these; taken last */

/* Finds the mapping that contains an address. It returns false if it cannot. */
static bool find_mapping(uintptr_t sp, struct stack *s)
{
	static char line[4096];
	uintptr_t low, high;
	FILE *f = fopen("/proc/self/maps", "re");
	bool found = false;

	while (f && !found && fgets(line, sizeof line, f))
		if (sscanf(line, "%lx-%lx", &low, &high) == 2 && low <= sp && sp < high) {
			*s = (struct stack){.low = low, .high = high};
			found = true;
		}
	if (f)
		fclose(f);
	return found;
}

/* Returns the stack with an address. The main thread's grows, so it may be found several times. */
static struct stack *stack_at(uintptr_t sp)
{
	for (int i = 0; i < MAX_STACKS; i++) {
		if (!stacks[i].high)
			return find_mapping(sp, &stacks[i]) ? &stacks[i] : NULL;
		if (stacks[i].low <= sp && sp < stacks[i].high)
			return &stacks[i];
	}
	return NULL;
}

/* Paints what is not in use, below this function. */
static __attribute__((noinline, no_sanitize("address"))) void paint(struct stack *s)
{
	uintptr_t top = ((uintptr_t)__builtin_frame_address(0) - OWN_BYTES) & ~(uintptr_t)7;
	uintptr_t bottom = top - s->low > PAINTED_BYTES ? top - PAINTED_BYTES : s->low;

	for (uintptr_t at = bottom; at < top; at += 8)
		*(volatile uint64_t *)at = PAINT;
	s->bottom = bottom;
	s->painted = top;
}

/* Returns the lowest address that was written since the stack was painted. */
static __attribute__((noinline, no_sanitize("address"))) uintptr_t lowest_use(const struct stack *s)
{
	uintptr_t at = s->bottom;

	while (at < s->painted && *(volatile uint64_t *)at == PAINT)
		at += 8;
	return at;
}

static void most(uint64_t *figure, uint64_t n)
{
	if (n > *figure)
		*figure = n;
}

/* Records the stack of a call that begins, and what the last call on the same stack has used. */
__attribute__((noinline)) void measure_stack(void)
{
	uintptr_t sp = (uintptr_t)__builtin_frame_address(0);

	spin_lock(&lock);
	struct stack *s = stack_at(sp);
	if (s) {
		if (s->painted)
			most(&figures.used, s->entry - lowest_use(s));
		most(&figures.before, s->high - sp);
		if (!figures.room || sp - s->low < figures.room)
			figures.room = sp - s->low;
		s->entry = sp;
		paint(s);
	}
	spin_unlock(&lock);
}

/* Forgets what was measured. */
void measure_stacks_again(void)
{
	spin_lock(&lock);
	memset(stacks, 0, sizeof stacks);
	figures = (struct stack_figures){0};
	spin_unlock(&lock);
}

struct stack_figures measured_stacks(void)
{
	spin_lock(&lock);
	struct stack_figures f = figures;
	spin_unlock(&lock);
	return f;
}
