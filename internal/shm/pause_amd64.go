package shm

// pause waits for some tens of cycles, during which the other hardware thread of this core, if there is one, has the core to
// itself.
func pause()
