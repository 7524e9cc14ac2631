// Package proctree finds, signals, kills and reaps the processes below this process.
//
// A process that calls [BecomeSubreaper] becomes the parent of every descendant whose own parent has died. So [Descendants]
// finds all of them, whatever setsid or double forks they used, a [Reaper] collects their exit statuses, and [KillDescendants]
// returns when none is alive or the kernel cannot kill the rest. A [Cgroup] lets the kernel kill all of them in one step where
// this user may create control groups.
package proctree
