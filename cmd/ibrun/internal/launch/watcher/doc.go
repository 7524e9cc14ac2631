// Package watcher is the process between ibrun and what it starts: the go command that builds a program, and the agent.
//
// ibrun starts it as "ibrun watch", in a session of its own, with a socket as descriptor 3. The watcher starts commands as
// its children, and is the subreaper of everything below. When the last command has exited, when ibrun asks for it, or when
// ibrun has died, the watcher kills all processes below it, which includes processes whose parents have died. It then removes
// the control group, and, if ibrun has died, the files that ibrun has left. An ibrun that starts other nodes has a second
// watcher for the commands that do so, such as ssh: they outlive the ranks of its own node.
//
//	ibrun ──▶ watcher ──▶ agent ──▶ ranks
//
// So nothing is left if ibrun and its agent are killed together. And ibrun is not the parent of what it starts, so it ends
// nothing else: children that a shell had before it became ibrun by exec are not descendants of the watcher.
//
//	w, err := watcher.Start()
//	defer w.Close()
//	c, err := w.Run(watcher.Command{Path: "/proc/self/exe", Args: []string{"ibrun", "agent"}, Files: files})
//	...
//	ended := <-c.Ended // no process is left
package watcher
