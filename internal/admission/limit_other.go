//go:build !unix

package admission

// Limit returns most, or a quarter of the descriptors that this process may open, if the system limits them.
func Limit(most int) int { return most }
