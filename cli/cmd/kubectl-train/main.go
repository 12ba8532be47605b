// Kubectl-train is a kubectl plugin for people who train models.
package main

import "tensorstack.dev/jobs/cli/command"

func main() { command.Main() }
