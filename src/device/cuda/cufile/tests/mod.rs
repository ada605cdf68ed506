pub(super) mod fakes;
