// Package doctor is `ibrun doctor`: it looks for what people lose days on before their first message arrives, and says
// for each finding why it matters and which command mends it.
//
//	ibrun doctor                 this machine
//	ibrun doctor node1 node2     also whether these can be reached, and run the same ibrun
//	ibrun doctor --json          {"findings":[{"id","severity","evidence","why","fix"}]}, with all checks that ran
//	ibrun doctor --input FILE    the machine that ibrun topo --capture wrote down
//
// The exit code is 0, 1 with warnings, 2 with errors.
//
// A check is a function on plain data, a [Host], and returns findings. What a host does not tell, or a captured
// tree does not hold, is a finding of severity info that says so: unknown is never ok.
package doctor
