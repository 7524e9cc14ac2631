package shm

// pause lets some tens of cycles pass, in which the other thread of this core, if there is one, has it to itself.
func pause()
