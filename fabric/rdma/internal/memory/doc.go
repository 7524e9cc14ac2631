// Package memory allocates the memory that devices read and write by themselves: bounce buffers,
// datagrams, and tables of keys.
package memory
