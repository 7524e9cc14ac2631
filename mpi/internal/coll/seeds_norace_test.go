//go:build !race

package coll

// shmSeeds is how many lists of calls TestShm tries with each number of ranks.
const shmSeeds = 4
