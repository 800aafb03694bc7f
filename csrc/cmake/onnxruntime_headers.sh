#!/bin/sh
# Puts ONNX Runtime's C headers into a folder: those of Debian's package libonnxruntime-dev, without installing it.
#
#     onnxruntime_headers.sh DIR
#
# A release before Debian 13 does not have the package: then Debian 13's is taken, from the mirrors that this system is
# configured for. Nothing but DIR is changed. Where there is no apt, point IDCWH_ONNXRUNTIME_INCLUDE at the headers of
# any ONNX Runtime from 1.11 on.
set -eu

into=$1
header=onnxruntime_c_api.h
[ -e "$into/$header" ] && exit 0
if [ -e "/usr/include/onnxruntime/$header" ]; then
    mkdir -p "$into" && cp -r /usr/include/onnxruntime/. "$into"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
download() { (cd "$work" && apt-get -qq "$@" download libonnxruntime-dev) >"$work/log" 2>&1; }

fetch() {
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || { echo "no apt-get" >"$work/log"; return 1; }
    download && return 0
    . /etc/os-release
    [ "${ID:-}" = debian ] || return 1
    mkdir -p "$work/sources" "$work/lists/partial" "$work/cache/archives/partial"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
        if [ -s "$file" ]; then sed "s/$VERSION_CODENAME/trixie/g" "$file" >"$work/sources/${file##*/}"; fi
    done
    [ ! -e "$work/sources/sources.list" ] || mv "$work/sources/sources.list" "$work/sources/debian.list"
    set -- -o "Dir::Etc::sourcelist=-" -o "Dir::Etc::sourceparts=$work/sources" -o "Dir::State::lists=$work/lists" \
        -o "Dir::Cache=$work/cache"
    apt-get -qq "$@" update >"$work/log" 2>&1 && download "$@"
}

if ! fetch; then
    echo "ONNX Runtime's headers cannot be had here ($(tail -n 1 "$work/log")); idcwh::Encoder is not built or tested" >&2
    exit 1
fi
dpkg-deb -x "$work"/libonnxruntime-dev_*.deb "$work/unpacked"
mkdir -p "$into"
cp -r "$work/unpacked/usr/include/onnxruntime/." "$into"
