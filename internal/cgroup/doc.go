// Package cgroup finds the control groups of this process, of both versions, and reads limits that apply to it.
//
// A limit of a group also applies to the groups below it. So limits are read from the group of the process up to the first one
// that is mounted. In a container that one mostly is the container's own group.
package cgroup
