// Package wakesock makes the sockets over which the processes of a node wake each other and pass descriptors.
//
// Each process has a pair of connected packet sockets. It alone holds the receiving end. The others send into the sending end,
// of which they get duplicates. No socket has a name, so no other user can send to one.
//
// When a process ends, the kernel closes its receiving end, and its sending end reports that. One epoll set watches the sending
// ends of all processes of the node. Every process has a duplicate of the set, so it learns which process has ended, with one
// descriptor and whether it has used that sending end or not.
//
// The agent of ibrun makes a [Node] and hands out its sockets. Under other launchers the first process makes it, and hands out
// the sockets over a listening socket in a folder that only this user can enter ([Meet]). The folder exists only until all
// processes have come.
package wakesock
