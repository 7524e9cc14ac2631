// Package devices has what the parts of fabric/rdma need of devices before and below connections.
//
//	memory_linux.go  memory that devices access
package devices
