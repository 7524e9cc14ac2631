//go:build !linux

package pmix

// withoutSignals calls f. The library is loaded on Linux only.
func withoutSignals(f func()) error {
	f()
	return nil
}
