#include <stdint.h>

struct two {
	uint32_t a;
	uint8_t b;
	uint64_t c;
	union {
		struct {
			uint32_t d;
		} arm;
		uint64_t e;
	} u;
};

enum { TWO_FLAG = 2 };
#define TWO_NAME "two"
