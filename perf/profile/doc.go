// Package profile has a rank take CPU and goroutine profiles of itself into memory that others read after it has ended, or died.
//
//	c, err := profile.Start(memory)
//	...
//	err = c.Stop()
//
//	parts, err := profile.Read(memory) // elsewhere
//
// Go writes a CPU profile when it is stopped, so a rank that is killed would leave none. Therefore it is stopped and begun
// again at intervals, 250 ms at first and then longer up to 8 s, and each part is complete in itself: what is lost is the
// last part. With every part comes a profile of all goroutines, of which the last tells where the rank was. A process has one CPU
// profile at a time; a program that takes its own finds it in use, or keeps this package from taking one.
//
// Around the end of a part, for up to 100 ms, nothing is sampled. As the memory fills, parts become longer.
package profile
