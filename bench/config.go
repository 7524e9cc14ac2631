package bench

import (
	"fmt"
	"time"
)

// Config says how an operation is measured. The zero value is how OSU does it, in about 50 ms per size.
type Config struct {
	// Sizes in bytes, measured in this order. Nil means the operation's own ladder, [Op.Sizes].
	Sizes []int

	// Window is the number of messages in flight in bw, bibw and mbw_mr. 0 means 64.
	Window int

	// Time that the measured iterations of one size should take, by the clock of rank 0. 0 means 50 ms. The count
	// of turns is found by runs that take about as long again. A warm-up before them takes about forty times as long, at most.
	Time time.Duration

	// Iterations fixes the number of measured iterations instead. An iteration is one ping-pong, one window or one collective
	// call.
	Iterations int

	// Warmup is the number of turns before the measured ones, in the same loop. 0 means a tenth of them.
	Warmup int

	// Memory bounds the bytes of buffers per rank. 0 means 512 MiB. The ladder ends where it would be
	// exceeded; a size asked for that exceeds it is an error.
	Memory int

	// Percentiles asks for the distribution over single turns. It costs one clock reading per turn.
	Percentiles bool

	// Written makes latency write each message before it is sent, and bw all messages of a window, each in a buffer of its own,
	// before the first of them is sent. The figures leave out how long that takes. There are no percentiles then, and what
	// arrives is not checked. Other operations cannot be measured so.
	Written bool

	// Validate fills the buffers with patterns and checks what arrived, before and after the measured iterations.
	Validate bool
}

const (
	defaultWindow = 64
	defaultTime   = 50 * time.Millisecond
	defaultMemory = 512 << 20
)

// Check returns the error that [Run] would return for this configuration of op among ranks.
func (cfg Config) Check(op Op, ranks int) error {
	_, err := cfg.withDefaults(op, ranks)
	return err
}

// withDefaults returns the configuration with the zero fields filled in, and its sizes checked for op among ranks.
func (cfg Config) withDefaults(op Op, ranks int) (Config, error) {
	if cfg.Window < 0 || cfg.Time < 0 || cfg.Iterations < 0 || cfg.Warmup < 0 || cfg.Memory < 0 {
		return cfg, fmt.Errorf("bench: a negative window, time, count of iterations, warm-up or memory")
	}
	switch {
	case cfg.Written && op.writtenLoop == nil:
		return cfg, fmt.Errorf("bench: %s has no form that writes its messages", op.Name)
	case cfg.Written && (cfg.Validate || cfg.Percentiles):
		return cfg, fmt.Errorf("bench: messages that are written are not checked, and have no percentiles")
	}
	if cfg.Window == 0 {
		cfg.Window = defaultWindow
	}
	if cfg.Time == 0 {
		cfg.Time = defaultTime
	}
	if cfg.Memory == 0 {
		cfg.Memory = defaultMemory
	}
	if cfg.Sizes == nil {
		for _, size := range op.Sizes() {
			if cfg.buffers(op, size, ranks) <= cfg.Memory {
				cfg.Sizes = append(cfg.Sizes, size)
			}
		}
	}
	for _, size := range cfg.Sizes {
		if !op.Takes(size) {
			return cfg, fmt.Errorf("bench: %s has no point of %d bytes: %s", op.Name, size, op.sizeRule())
		}
		if need := cfg.buffers(op, size, ranks); need > cfg.Memory {
			return cfg, fmt.Errorf("bench: %s of %s among %d ranks needs %s of buffers per rank, the limit is %s",
				op.Name, FormatSize(size), ranks, FormatSize(need), FormatSize(cfg.Memory))
		}
	}
	return cfg, nil
}

// buffers returns the number of bytes of all buffers of one rank.
func (cfg *Config) buffers(op Op, size, ranks int) int {
	n := op.memory(size, ranks)
	if cfg.Written && op.Unit.MoreIsBetter() { // bw, which has a buffer for each message of a window
		n += cfg.Window * size
	}
	return n
}
