// Package creation carries the messages of processes that create a communicator from groups. They
// have no communicator for their messages yet, so these use a context that all processes know. Each
// begins with an ID, a digest of the groups and the tag, which keeps concurrent creations apart.
// Its files:
//
//	queue.go     receives the messages of all creations, and gives each to its reader
//	exchange.go  what the processes of one creation agree on by these messages
//	leaders.go   how the leaders of two groups tell each other the processes of their groups
//
// A goroutine that waits for a message of its own receives whatever arrives, and queues messages of
// other creations for their readers. The mutex of the queue guards what is queued. It is not held
// while the goroutine waits in the engine.
package creation
