package simulated

import (
	"context"
	"path/filepath"
	"slices"

	"tensorstack.dev/jobs/test/localcluster"
)

// Programs holds the folders of the programs of a control plane, and the path of the configuration of Volcano's
// scheduler.
type Programs struct {
	assets, kubernetes, kwok, volcano, volcanoSource, volcanoConfig string

	kueue, kueueSource string
}

// BuildKueue adds Kueue to the programs. The first build takes minutes.
func (p *Programs) BuildKueue(ctx context.Context, b *localcluster.Builder) (err error) {
	if p.kueue, err = b.Binaries(ctx, Kueue, Kueue); err != nil {
		return err
	}
	return p.DownloadKueue(ctx, b)
}

// DownloadKueue adds only the source of Kueue to the programs. The source has the CRDs of Kueue.
func (p *Programs) DownloadKueue(ctx context.Context, b *localcluster.Builder) (err error) {
	p.kueueSource, err = b.SourceDir(ctx, Kueue)
	return err
}

// Build builds the programs for control planes of the given kinds, unless they are cached. The first build takes many
// minutes.
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
