// Package profile takes CPU and goroutine profiles of the calling process, into memory that other processes can read after it has
// ended or died.
//
//	c, err := profile.Start(memory)
//	...
//	err = c.Stop()
//
//	parts, err := profile.Read(memory) // in the reader
//
// The Go runtime writes a CPU profile only when profiling stops, so a killed process would leave none. Therefore this package
// stops and restarts it at intervals, from 250 ms up to 8 s. Each part is complete: only the last part of a killed process is
// lost. Every part has a profile of all goroutines; the last one shows where the process was. A process can have one CPU
// profile at a time: if the program takes one itself, one of the two returns an error.
//
// Around the end of a part nothing is sampled, for up to 100 ms. Parts become longer as the memory fills.
package profile
