// Package coordinator controls a job from start to end: it is what ibrun does besides planning and building.
//
// [JoinNodes] connects the ibruns of all nodes. [RunJob] then starts the agent of this node and processes events until the job
// has ended:
//
//	node 0   ibrun ──orders──▶ agent ───▶ ranks
//	          │  ▲
//	     orders  events
//	          ▼  │
//	node k   ibrun ──orders──▶ agent ───▶ ranks
//
// The ibrun of node 0 is the coordinator. It receives the events of all agents, its own and those
// of the other nodes, sends orders to all of them, determines which rank failed first and with
// which exit code ibrun exits, and writes the report. The other nodes are workers: each forwards
// events and orders between its agent and the coordinator, and ends its agent if the coordinator is
// lost.
//
// If the coordinator has started the other nodes, they forward the output of their agents to it,
// and it merges the output of all nodes ([protocol.Forwarding]). Standard input goes from the
// coordinator to the node of rank 0. Both are bounded, and delay no order or event.
//
// Event times are by the coordinator's clock, so the first failure is found even if the coordinator
// received the event of a later one earlier.
package coordinator
