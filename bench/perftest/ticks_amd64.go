package perftest

// ticks reads the processor's cycle counter, as perftest does at every turn: the system's clock is a system call where its
// source is a device, and then takes longer than a turn.
func ticks() uint64
