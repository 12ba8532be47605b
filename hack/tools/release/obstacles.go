package main

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/mod/semver"
)

// obstacles returns the reasons why the release is not possible. A dry run continues in spite of them.
func (r *release) obstacles(ctx context.Context) (found []error, err error) {
	changes, err := r.git(ctx, r.root, "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if changes != "" {
		found = append(found, fmt.Errorf("the tree is not clean: commit the changes first\n%s", changes))
	}
	taken, err := r.git(ctx, r.root, "tag", "--list", r.tag())
	if err != nil {
		return nil, err
	}
	if taken != "" {
		found = append(found, fmt.Errorf("%s is released already: set VERSION to a greater version", r.tag()))
	}
	// Only tags in the history of HEAD count. A patch of an older version is released from a branch whose history does
	// not have the tags of newer versions.
	tags, err := r.git(ctx, r.root, "tag", "--merged", "HEAD", "--list", r.module+"/v*")
	if err != nil {
		return nil, err
	}
	for tag := range strings.FieldsSeq(tags) {
		if last := strings.TrimPrefix(tag, r.module+"/"); tag != taken && semver.Compare(r.version, last) <= 0 {
			found = append(found, fmt.Errorf("%s is not greater than %s, which is released already", r.version, last))
		}
	}
	// The version can be equal to the one in versions.yaml, because a new module has the version of its first release
	// there.
	if pinned := r.pins.Modules[r.module].Version; semver.Compare(r.version, pinned) < 0 {
		found = append(found, fmt.Errorf("%s is less than %s, the version in versions.yaml", r.version, pinned))
	}
	for _, required := range r.pins.RequiredBy(r.module) {
		obstacle, err := r.requiredObstacle(ctx, required)
		if err != nil {
			return nil, err
		}
		if obstacle != nil {
			return append(found, obstacle), nil
		}
	}
	return found, nil
}

// requiredObstacle returns the reason why a required module blocks the release, or nil. Users of the release get the
// tagged version of the required module. So the files of that module must not have changed since its tag.
func (r *release) requiredObstacle(ctx context.Context, required string) (obstacle, err error) {
	tag := required + "/" + r.pins.Modules[required].Version
	tags, err := r.git(ctx, r.root, "tag", "--list", tag)
	if err != nil {
		return nil, err
	}
	if tags == "" {
		return fmt.Errorf("%s, which the module requires, is not released: release %s first", tag, required), nil
	}
	changed, err := r.git(ctx, r.root, "diff", "--name-only", tag, "HEAD", "--", required)
	if err != nil {
		return nil, err
	}
	if changed != "" {
		return fmt.Errorf("%s has changed since %s: release %s first\n%s", required, tag, required, changed), nil
	}
	return nil, nil
}
