// Package clocks gives the processes of a job one time. Package clocksync fits a line to samples,
// and corrects a clock by it; this package takes the samples and sends the corrections. Its files:
//
//	roles.go      which process measures, and which follows another; how the clocks start
//	sync.go       cycles of measurements and corrections
//	agreement.go  whether the clocks agree so well that the time is one for all
//
// The engine calls Stamp, Ping, Pong, Adjust and State while it makes progress: they neither wait
// nor call the engine. Sync's mutex guards the answers that a leader has not taken, and that of
// agreement what rank 0 knows of the leaders; neither is held when the engine is called.
package clocks
