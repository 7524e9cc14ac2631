// Package doctor is the command `ibrun doctor`. It checks a machine and its network for common problems of RDMA and MPI, and
// prints for each finding why it matters and which command fixes it.
//
//	ibrun doctor                 this machine
//	ibrun doctor node1 node2     also whether these hosts are reachable and have the same ibrun
//	ibrun doctor --json          {"verdict":{...},"findings":[{"id","severity","evidence","why","fix"}]}, with all checks that ran
//	ibrun doctor --bundle [FILE] write an archive for a report of a problem, see docs/hardware.md
//	ibrun doctor --input FILE    a machine captured by ibrun topo --capture
//
// The exit code is 0, or 1 if jobs cannot work. What is wrong with RDMA does not count: jobs use TCP then.
//
// A bundle contains only what is on lists: of files, of lines of files, of environment variables. What it contains is then
// searched for secrets and names of users once more, because a list may be wrong.
//
// A check is a function of plain data, a [Host], and returns findings. Data that a host does not report, or that a captured
// tree lacks, is a finding of severity info: unknown is never ok.
package doctor
