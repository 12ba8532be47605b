// Release makes a release of one module: it dates the changelog, pins the versions, commits, makes the files for
// users, and tags. Release does not push. A dry run, which is the default, only shows the changes and makes the
// files, without their provenance.
//
// The files for users are the archive of the module and the provenance of all files. A controller also has manifests
// and a chart, and a client has the archives of its program.
//
//	release -module pytorch -version v0.2.0 -dry-run=false
//
// Release works on the committed files, in a separate Git worktree, so that a release that fails changes nothing in
// the repository. docs/contribute/releasing.md describes how to make a release.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	r := release{out: os.Stdout, warnings: os.Stderr, date: time.Now().UTC().Format(time.DateOnly)}
	flag.StringVar(&r.root, "root", ".", "root of the repository")
	flag.StringVar(&r.module, "module", "", "module to release")
	flag.StringVar(&r.version, "version", "", "version of the release")
	flag.BoolVar(&r.dry, "dry-run", true, "only show the changes of the release")
	flag.StringVar(&r.platforms, "platforms", "", "platforms of a client (default: all platforms of hack/client.sh)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := r.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
