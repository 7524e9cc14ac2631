// Package launch starts the ranks of a job on this machine, and sees to it that none is left behind.
//
// Three kinds of process take part:
//
//	ibrun ──orders──▶ agent ──PMI, IBRUN_FD, pipes──▶ ranks, and whatever they start
//	      ◀──events──
//
// [Run] is ibrun: it reads the options, deals out the cores, builds what is a Go program, and judges what happens
// ([judge]). [Agent] is ibrun executed again in a session of its own: it starts the ranks, answers their PMI,
// passes their output on line by line, and signals and kills as it is told. It decides nothing, so that there can
// be one on every node.
//
// On several nodes ibrun is started on each, by whatever can start a program there. They meet at node 0 (package
// rendezvous), and from then on
//
//	node 0   ibrun ──orders──▶ agent ───▶ ranks
//	          │  ▲
//	     orders  events
//	          ▼  │
//	node k   ibrun ──orders──▶ agent ───▶ ranks
//
// node 0 conducts all agents alike ([conductor]): that of its own directly, the others through the ibrun of their
// node, which passes both on ([follower]), keeps its agent, and ends it if node 0 is lost. Each agent answers the PMI
// of its own ranks; what concerns others goes up and down with the events and orders, once for each node and
// barrier. Each node shows its own ranks' output; what ranks do, any of them tells of all, as node 0 asks the others
// ([looks]). Events bear node 0's time, so that the first failure is named also if another was heard of before it.
// The job's secret is made on each node from that of the secret file and a random number of node 0, and does not
// travel.
//
// ibrun and agent are subreapers: a process whose parent has died becomes their child, so nothing that a rank starts
// can leave the tree below them, whatever setsid and double forks it uses. They watch each other by their socket: if ibrun
// dies, the agent kills everything below it and ends; if the agent dies, its ranks die with it (PR_SET_PDEATHSIG),
// the rest becomes ibrun's children, and ibrun kills it.
//
// Two things are as they are for a reason that does not show. Standard input is not passed on but inherited by rank
// 0, so what the rank does not read stays unread. And ranks stay in the agent's process group: setsid forks when it
// is started as the leader of a group, and ibrun would see the rank leave.
package launch
