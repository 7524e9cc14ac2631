// Package agent is the parent process of the ranks on one node.
//
// ibrun starts it as "ibrun agent", in a session of its own, with a socket as descriptor 3. The agent starts the ranks, bound
// to their processors and memory, serves PMI to them, forwards their output line by line, and signals and kills them when ibrun
// orders it. It reports the exits of ranks in the order in which they happened. It decides nothing, so there can be one on
// every node.
//
// If ibrun dies, the agent kills everything below it and exits. If the agent dies, the kernel kills its ranks
// (PR_SET_PDEATHSIG), and the watcher above it kills their descendants: see package watcher.
//
// Two decisions have reasons that do not show in the code. Rank 0 inherits standard input itself, so what the rank does not
// read stays unread; for a job that was started in the background see [console.Streams.RankInput]. And ranks stay in the agent's
// process group: setsid forks if it is started as the leader of a group, and the agent would see the rank exit. They stay in
// its session as well, which is one group of the kernel's scheduler (autogroup): sched_yield yields within a group only, so
// ranks with groups of their own could not let each other run. docs/scaling.md has figures.
package agent
