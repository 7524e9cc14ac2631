package shm

// Pause waits for some tens of cycles, on some processors 140. The other hardware thread of this core, if there is one, has the
// core to itself meanwhile.
func Pause()

// PausedPolls is how often a word is polled, with a Pause after each poll, for about as long as two cache lines from far cores
// take.
const PausedPolls = 100
