// Kubectl-train is a kubectl plugin for the people who train.
package main

import "tensorstack.dev/jobs/cli/command"

func main() { command.Main() }
