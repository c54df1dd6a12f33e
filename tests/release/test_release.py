"""What a release is made of fits together: versions, locks, licences, changelog, recipe."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from rattler_build import (
    JinjaConfig,
    PlatformConfig,
    RenderConfig,
    RenderedVariant,
    Stage0Recipe,
    VariantConfig,
)

import scstream
from tests.release.scripts import ROOT, script

audit, licences, locks, versions = map(script, ("audit", "licences", "locks", "versions"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that have the version, in place of the repository."""
    for name in {*versions.versions(), *versions.ADDRESSES}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.setattr(versions, "ROOT", tmp_path)
    return tmp_path


def settle(folder: Path) -> None:
    """Write real addresses and digests where there are placeholders."""
    for name in versions.ADDRESSES:
        text = (folder / name).read_text().replace(versions.PLACEHOLDER, "example.org")
        (folder / name).write_text(versions.BASE.sub(rf"ARG \1=\2@sha256:{'a' * 64}", text))


class TestVersions:
    def test_files_agree(self) -> None:
        assert versions.check() == scstream.__version__ == PROJECT["version"]

    def test_one_that_disagrees_is_named(self, copied: Path) -> None:
        text = (copied / "CITATION.cff").read_text()
        (copied / "CITATION.cff").write_text(re.sub(r"\nversion: .*", "\nversion: 7.7.7", text))
        with pytest.raises(SystemExit, match=r"CITATION.cff: 7\.7\.7"):
            versions.check()

    def test_one_that_is_lost_is_named(self, copied: Path) -> None:
        (copied / "CITATION.cff").write_text("title: scstream\n")
        with pytest.raises(SystemExit, match="no version is found in CITATION"):
            versions.check()

    def test_a_version_is_set_everywhere(self, copied: Path) -> None:
        versions.write("9.9.9rc1")
        assert versions.check() == "9.9.9rc1"
        with pytest.raises(SystemExit, match="is not a version"):
            versions.write("next")

    def test_an_address_must_be_real(self, copied: Path) -> None:
        """Of every file that names one, and no file may leave it out."""
        assert len(list(versions.placeholders())) == len(versions.ADDRESSES)
        settle(copied)
        assert list(versions.placeholders()) == []
        for name, pattern in versions.ADDRESSES.items():
            kept = (copied / name).read_text()
            (copied / name).write_text(re.sub(pattern, "", kept, flags=re.MULTILINE))
            assert list(versions.placeholders()) == [f"{name} has no address of the project"]
            (copied / name).write_text(kept)

    def test_an_image_is_built_from_a_digest(self, copied: Path) -> None:
        assert len(list(versions.loose_bases())) == 2
        settle(copied)
        assert list(versions.loose_bases()) == []
        file = copied / "deploy" / "Dockerfile"
        file.write_text(file.read_text().replace("a" * 64, "a" * 63, 1))
        [sentence] = versions.loose_bases()
        assert "BUILD_BASE" in sentence

    def test_a_release_lacks_its_notes_then_its_model_file_then_nothing(self, copied: Path) -> None:
        versions.write("9.9.9")
        changelog = copied / "CHANGELOG.md"
        changelog.write_text("# Changelog\n\n## 9.9.8 (2026-01-01)\n\n- Old.\n")
        with pytest.raises(SystemExit, match=r"has no notes of 9\.9\.9"):
            versions.released("v9.9.9")
        changelog.write_text(
            "# Changelog\n\n## 9.9.9 (2026-02-01)\n\n- New.\n\n## 9.9.8 (2026-01-01)\n\n- Old.\n"
        )
        assert versions.notes("9.9.9") == "- New.\n"
        with pytest.raises(SystemExit, match=r"(?m)^tests/compat has no model file of 9\.9\.9"):
            versions.released("v9.9.9")
        (copied / "tests" / "compat").mkdir(parents=True)
        (copied / "tests" / "compat" / "golden-9.9.9.scstream").touch()
        settle(copied)
        versions.released("v9.9.9")
        with pytest.raises(SystemExit, match=r"the tag v9\.9 is not v9\.9\.9"):
            versions.released("v9.9")


class TestLocks:
    def test_they_have_what_is_asked_for_and_name_no_index(self) -> None:
        found = [
            fault for name, lock in locks.locks().items() for fault in locks.faults(name, lock)
        ]
        assert found == []

    def test_extras_of_users_are_locked_and_those_of_developers_are_not(self) -> None:
        extras = set(locks.user_extras())
        assert {"cli", "kafka", "plot", "serve"} <= extras
        assert extras | locks.FOR_DEVELOPERS >= set(PROJECT["optional-dependencies"])
        text = (ROOT / "requirements" / "package.lock").read_text()
        assert "\nfastapi==" in text
        assert "\npytest==" not in text

    @pytest.mark.parametrize(
        ("old", "new", "detail"),
        [
            (r"^numpy==[\d.]+", "numpy==1.0", "numpy 1.0, but numpy>="),
            (r"^safetensors==", "tensors==", "lacks safetensors"),
            (r"^# This", "--index-url https://example.org/simple\n# This", "names an index"),
            (r"    --hash=\S+ \\\n", "    --hash=md5:1 \\\n", "without a hash"),
        ],
        ids=["old", "missing", "index", "hash"],
    )
    def test_a_stale_one_is_found_out(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, detail: str
    ) -> None:
        text = (ROOT / "requirements" / "package.lock").read_text()
        changed, n_changes = re.subn(old, new, text, count=1, flags=re.MULTILINE)
        assert n_changes == 1
        (tmp_path / "package.lock").write_text(changed)
        monkeypatch.setattr(locks, "FOLDER", tmp_path)
        assert any(detail in fault for fault in locks.faults("package", locks.locks()["package"]))


class TestLicences:
    def test_those_of_all_extras_are_on_the_list(self, capsys: pytest.CaptureFixture[str]) -> None:
        licences.main()
        assert "all with licences that are on the list" in capsys.readouterr().out

    def test_another_one_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(licences, "PERMISSIVE", licences.PERMISSIVE - {"BSD-3-Clause"})
        with pytest.raises(SystemExit, match="scipy, which everybody installs: BSD-3-Clause"):
            licences.main()

    @pytest.mark.parametrize(
        ("expression", "is_accepted"),
        [
            ("MIT", True),
            ("GPL-3.0-only", False),
            ("MIT OR GPL-3.0-only", True),
            ("MIT AND GPL-3.0-only", False),
            ("MIT AND (GPL-3.0-only OR Apache-2.0)", True),
            ("MIT OR GPL-3.0-only AND GPL-2.0-only", True),
            ("(MIT OR GPL-3.0-only) AND GPL-2.0-only", False),
            ("GPL-3.0-only WITH GCC-exception-3.1", False),
            ("(MIT", False),
            ("MIT MIT", False),
            ("none declared", False),
            ("", False),
        ],
    )
    def test_expressions(self, expression: str, is_accepted: bool) -> None:
        assert licences.accepted(expression, licences.PERMISSIVE) is is_accepted


class TestAudit:
    def test_silence_is_not_a_good_answer(self) -> None:
        skipped = [{"name": "numpy", "skip_reason": "nobody knows it"}]
        for answers in ([], skipped):
            found, sentence = audit.verdict("package.lock", answers)
            assert found == []
            assert "was not audited" in sentence
        assert list(audit._unknown(skipped)) == ["numpy could not be looked up: nobody knows it"]

    def test_an_advisory_is_found(self) -> None:
        flaw = {"id": "CVE-2026-1", "fix_versions": ["2.0"]}
        answers = [{"name": "numpy", "version": "1.0", "vulns": [flaw]}]
        found, sentence = audit.verdict("package.lock", answers)
        assert found == ["package.lock: numpy 1.0 has CVE-2026-1, mended in 2.0"]
        assert "1 of 1 packages" in sentence


class TestChangelog:
    FRAGMENTS = sorted(path for path in (ROOT / "changelog.d").iterdir() if path.stem != "README")
    KINDS = "added|changed|deprecated|removed|fixed"

    def test_names_of_fragments_are_those_that_towncrier_knows(self) -> None:
        name = re.compile(rf"(\+[\w-]+|\d+)\.({self.KINDS})(\.\d+)?\.md")
        assert [path.name for path in self.FRAGMENTS if not name.fullmatch(path.name)] == []

    def test_every_fragment_is_in_the_notes(self) -> None:
        draft = subprocess.run(
            [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9.9"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert "## 9.9.9 (" in draft
        notes = " ".join(draft.split())
        texts = {path.name: path.read_text(encoding="utf-8").split() for path in self.FRAGMENTS}
        assert [name for name, words in texts.items() if " ".join(words) not in notes] == []


def test_patterns_of_the_source_archive_begin_at_its_root() -> None:
    """Else "docs" also takes what is ignored by git, such as build/html/docs, along."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]
    assert [pattern for pattern in build["sdist"].get("include", []) if pattern[0] != "/"] == []


def rendered(platform: str) -> list[RenderedVariant]:
    """The conda packages that the recipe makes for a platform, one for each Python."""
    chosen = PlatformConfig(target_platform=platform, build_platform=platform)
    recipe = Stage0Recipe.from_file(ROOT / "conda" / "recipe.yaml")
    variants = VariantConfig.from_file_with_context(
        ROOT / "conda" / "variants.yaml", JinjaConfig(platform=chosen)
    )
    return recipe.render(variants, RenderConfig(platform=chosen))


@pytest.mark.parametrize("platform", ["linux-64", "osx-arm64", "win-64"])
def test_the_conda_recipe_asks_for_what_the_package_asks_for(platform: str) -> None:
    packages = rendered(platform)
    pythons = [line for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert len(packages) == len(pythons)
    recipe: dict[str, Any] = packages[0].recipe.to_dict()
    asked = {line.replace(" ", "") for line in recipe["requirements"]["run"]} - {"python"}
    assert asked == set(PROJECT["dependencies"])
    assert recipe["package"] == {"name": "scstream", "version": PROJECT["version"]}


def test_hooks_of_pre_commit_are_well_formed() -> None:
    hooks = [sys.executable, "-m", "pre_commit", "validate-config"]
    subprocess.run([*hooks, ROOT / ".pre-commit-config.yaml"], check=True)
