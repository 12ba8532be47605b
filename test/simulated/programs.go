package simulated

import (
	"context"
	"path/filepath"
	"slices"

	"tensorstack.dev/jobs/test/localcluster"
)

// Programs are those of a control plane, as folders that they are in, and how Volcano's scheduler is configured.
type Programs struct{ assets, kubernetes, kwok, volcano, volcanoSource, volcanoConfig string }

// Build builds what is missing of the programs that control planes of the given kinds need, which takes many minutes
// the first time.
func Build(ctx context.Context, b *localcluster.Builder, kinds ...Kind) (p Programs, err error) {
	if p.assets, err = b.Assets(ctx); err != nil {
		return p, err
	}
	if p.kubernetes, err = b.Binaries(ctx, b.Kubernetes, "kube-controller-manager", "kube-scheduler"); err != nil {
		return p, err
	}
	if p.kwok, err = b.Binaries(ctx, "kwok", "kwok"); err != nil || !slices.Contains(kinds, Volcano) {
		return p, err
	}
	if p.volcano, err = b.Binaries(ctx, "volcano", "vc-scheduler"); err != nil {
		return p, err
	}
	p.volcanoConfig = filepath.Join(b.Repo, "deploy/scheduler/volcano/conf/volcano-scheduler.conf")
	p.volcanoSource, err = b.SourceDir(ctx, "volcano")
	return p, err
}
