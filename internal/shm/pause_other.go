//go:build !amd64

package shm

// Pause does nothing: the gain on other processors was not measured.
func Pause() {}

// PausedPolls is how often a word is polled, with a Pause after each poll, for about as long as two cache lines from far cores
// take.
const PausedPolls = 1000
